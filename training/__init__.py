"""The recipe of `models/`: data, tokenizer, ladders, training, probes.

`python -m training --help` says what it makes.
"""
