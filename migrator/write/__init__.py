"""Put changed files on the disk, all or none."""
