"""Where workers live: confined, or in a process of their own."""
