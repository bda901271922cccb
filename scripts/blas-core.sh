# Sourced with the path of splitc: OpenBLAS takes its kernels for this CPU. A variable of the shell may choose slower ones;
# and where OpenBLAS does not know the CPU, this sets what the warning slow-blas says.
unset OPENBLAS_CORETYPE
case $("$1" --version 2>/dev/null) in
*Haswell | *Zen | *SkylakeX | *Cooperlake | *SapphireRapids) ;;
*avx512*) export OPENBLAS_CORETYPE=SkylakeX ;;
*avx2*) export OPENBLAS_CORETYPE=Haswell ;;
esac
