/* File streams of C++ for --source: the compiler's library leaves <fstream> out for WebAssembly, since that has no folders of
 * the kind that <filesystem> needs. With this they are made from the headers alone.
 */
#ifdef __cplusplus
#undef _LIBCPP_HAS_FILESYSTEM
#define _LIBCPP_HAS_FILESYSTEM 1
#include <__config>
#undef _LIBCPP_AVAILABILITY_HAS_ADDITIONAL_IOSTREAM_EXPLICIT_INSTANTIATIONS_1
#define _LIBCPP_AVAILABILITY_HAS_ADDITIONAL_IOSTREAM_EXPLICIT_INSTANTIATIONS_1 0
#endif
