"""Small runs that measure the instrument itself."""
