"""Thirty days of figures in one bounded file, and what follows from them: charts and the forecast of the disk."""
