"""Trading utility for privacy on streams; where privacy is free, share filters answer (``designs.perfect``).

Read ``tradeoff`` (utility against privacy), then what it is made of:
``arrays`` and ``knowledge`` (what agents know), ``objective`` (loss and privacies with gradients),
``curve`` and ``limit``.
"""
