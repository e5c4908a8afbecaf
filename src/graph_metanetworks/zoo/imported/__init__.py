"""Published zoos, made ours."""
