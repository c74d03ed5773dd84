# Moves the generator to where this Debian's systemd keeps its own. In Debian 12 that is /lib, and
# dpkg does not know that /lib is /usr/lib: it would take the directory for ours alone, and warn at
# purge that it is not empty.
set(root ${CPACK_TEMPORARY_DIRECTORY}/Unspecified)
set(installed ${root}/usr/lib/systemd/system-generators)
set(wanted ${root}${CPACK_TS_GENERATOR_DIR})
if(NOT wanted STREQUAL installed)
  get_filename_component(parent ${wanted} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(RENAME ${installed} ${wanted})
endif()
