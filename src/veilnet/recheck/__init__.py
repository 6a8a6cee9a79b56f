"""What messages tell, computed a second time: from (network, C, Θ) alone, sharing no code with the bounds.

``sums`` is quick and good for moderate numbers, ``twofold`` carries 32 digits, ``route`` decides which is asked;
``stream`` is the one for streams, by spectra and (``stream_witness``) filters that a centre can run.
"""
