"""The local cascade: voice activity, recognition, a brain and a voice, in full duplex."""
