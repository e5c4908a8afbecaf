"""What metanetworks are trained for."""
