"""Files in folders and in object storage."""
