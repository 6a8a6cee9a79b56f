"""What a fusion centre can know: pure functions of a network and its sanitizers.

``information`` turns sanitizers into information, ``knowledge`` that into errors, utility and privacy.
"""
