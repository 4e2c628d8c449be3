"""The housekeeper role: reserves, deletes, syncs the indexes, writes the checkpoint. All that flush must not wait for."""
