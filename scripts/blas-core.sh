# Sourced with the path of splitc: programs that do not choose OpenBLAS's kernels themselves take those that it takes.
unset OPENBLAS_CORETYPE
OPENBLAS_CORETYPE=$("$1" --version)
export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE##* }
