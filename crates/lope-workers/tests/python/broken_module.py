raise RuntimeError("this module does not load")
