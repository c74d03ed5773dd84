# Moves the generator to where this Debian's systemd keeps its own. In Debian 12 that is /lib, and
# dpkg does not know that /lib is /usr/lib: it would take the directory for ours alone, and warn at
# purge that it is not empty.
set(installed ${CPACK_TEMPORARY_DIRECTORY}/usr/lib/systemd/system-generators)
set(wanted ${CPACK_TEMPORARY_DIRECTORY}${CPACK_TS_GENERATOR_DIR})
if(NOT wanted STREQUAL installed)
  get_filename_component(parent ${wanted} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(RENAME ${installed} ${wanted})
endif()
