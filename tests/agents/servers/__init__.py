"""Small servers that speak the real protocols on loopback, with misbehaviour that can be switched on."""
