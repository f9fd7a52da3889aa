"""One trace from the POST to the callback."""
