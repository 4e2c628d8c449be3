"""Tables: typed rows and their columns, once, for the page, CSV, JSON Lines and the API."""
