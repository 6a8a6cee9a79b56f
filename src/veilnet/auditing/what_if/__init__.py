"""What if agents collude, releases repeat, the model is wrong, agents fall silent? One module per question."""
