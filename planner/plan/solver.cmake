# Settings for the build of HiGHS, which cargo starts: docs/decisions/0018-highs.md has the reasons.

# Several files are one unit of compilation: a build takes less than half of the time.
set(CMAKE_UNITY_BUILD ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)

# Cargo passes its profile's level on. Builds for tests are to be quick.
if("$ENV{OPT_LEVEL}" STREQUAL "1")
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG" CACHE STRING "")
endif()
