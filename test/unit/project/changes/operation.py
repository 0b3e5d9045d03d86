"""What `operation.diff` brings: passes know what `tt.mulhiui`, the high half of a product, does."""

from triton_linear.passes.operations.table import named

facts = named("tt.mulhiui")
print("layouts go through it:", facts.elementwise)
print("clocks of a warp:", facts.clocks)
print("it stores to memory on the chip:", facts.fills)
