/* wine 8 lacks this library of Windows 8 and later, of which the runtime needs one function: a stand-in for tests under wine. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG size); /* RtlGenRandom */

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T size) { return SystemFunction036(buffer, (ULONG)size); }
