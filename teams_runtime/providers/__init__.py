"""One prompt in, one reply out; foreign failures mapped to a closed list."""
