"""What `encoding.diff` brings: a layout where there was an unknown encoding, and cases that Triton judges."""

from triton_linear.dialect.encodings import UnknownEncoding, layout_of
from triton_linear.tools.doctor.encodings import Cases, Oracle

text = "#ttg.amd_rotating_shared<{vec = 2, perPhase = 1, maxPhase = 2, order = [1, 0]}>"
try:
    print(layout_of(text, (8, 4)))
except UnknownEncoding as error:
    print(error)
print("cases are drawn:", "rotating" in Cases(Oracle(), 1).families)
