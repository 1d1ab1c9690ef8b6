"""The recipe that made `models/`: data, tokenizer, ladders, training. `python -m training --help`."""
