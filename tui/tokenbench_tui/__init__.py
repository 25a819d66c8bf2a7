"""Front ends of tokenbench: commands and the console, both projections of core."""
