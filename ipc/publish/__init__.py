"""Publishers of the control block's cells: a module for each writer, imported only by that role."""
