"""The cluster, as the console reads it: through one Admin of headrace, with deadlines and a short-lived cache."""
