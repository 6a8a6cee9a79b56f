"""What a fusion centre can know: pure functions of a network and its sanitizers.

``knowledge`` turns sanitizers into information, and that into errors, utility and privacy.
"""
