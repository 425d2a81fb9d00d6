"""The pure floor: what evidence is and how it is shaped. No clock, no network, no vendor."""
