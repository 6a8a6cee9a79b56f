"""Can privacy be free on a stream? Share filters, and the exact test with them.

Read ``share_filters`` (what each agent has to send, and the least memory for it), then ``exact_test``.
"""
