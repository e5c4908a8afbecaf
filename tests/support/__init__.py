"""What tests share: the menagerie, networks, zoos and oracles."""
