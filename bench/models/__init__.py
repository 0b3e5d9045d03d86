"""Models of `transformers` through torch.compile, with stock Triton and with the plugin."""
