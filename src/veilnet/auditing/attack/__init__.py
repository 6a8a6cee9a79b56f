"""What can be learned from what is sent? ``simulation`` and ``held_out`` make rows, ``attackers`` learn from them."""
