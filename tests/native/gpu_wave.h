// All kernels of one wave, SKETCHLEARN_WAVE, each source in a namespace of its own: they share headers.
namespace dense {
#include "fourier.cu"
}
namespace written {
#include "written.cu"
}
namespace structured {
#include "structured.cu"
}
