"""Language models: one client (`client`), what is sent and found again (`messages`), strict reading (`reading`).

Authors, judges and agents use it; it knows none of them.
"""
