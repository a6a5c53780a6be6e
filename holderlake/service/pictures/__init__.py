"""Pictures of maps, drawn by the service itself: what is on them, where it stands, and how it looks."""
