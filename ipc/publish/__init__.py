"""Who may store which cells of the control block: a module for each writer, imported by that role and by nobody else."""
