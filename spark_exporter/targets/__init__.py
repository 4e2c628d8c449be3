"""Tables that rows go to, in three formats, and who may write to them."""
