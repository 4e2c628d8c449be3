"""The housekeeper role: reserves and deletes files, syncs the indexes, writes the checkpoint. Everything for which flush must not wait."""
