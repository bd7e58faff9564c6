"""Tests, flat, one module each; both unittest and pytest find them all."""
