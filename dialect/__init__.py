"""The vocabulary: linear layouts, Triton's encodings, the MLIR dialect and the bridge between the MLIRs."""
