"""What is decided about a request before it is read: who sends it, and how much one caller may send."""
