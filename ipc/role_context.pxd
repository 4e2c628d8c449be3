# The types of role_context.py.
cimport cython

from ipc.bells cimport Bell
from ipc.control_block cimport ControlBlock
from ipc.health_row cimport HealthRow, monotonic_ms

cdef class ApplianceRoleContext:
    cdef readonly str name
    cdef readonly Bell bell
    cdef readonly int stop_fd
    cdef readonly object counters, current_client
    cdef HealthRow _health
    cdef object _may_stop, _on_beat, _missed_rings
    cdef bint _is_told, _stopping
    cdef long long _next_beat_ms
    cdef list _long_calls
    cdef object _stop_poll, _poll

    cpdef beat(self)
    @cython.locals(until_ms=cython.longlong)
    cpdef begin_call(self, str what, long long limit_ms)
    cpdef end_call(self)
    cpdef bint take_stop_order(self) except -1
    @cython.locals(bell=Bell)
    cpdef bint wait(self, ready, long long timeout_ms) except -1
    @cython.locals(deadline_ms=cython.longlong, left_ms=cython.longlong)
    cdef bint _poll_until(self, poll, long long timeout_ms) except -1
    @cython.locals(now_ms=cython.longlong)
    cdef _beat_now(self)

cdef class RoleContext(ApplianceRoleContext):
    cdef readonly object take_reloaded_options, instance
    cdef readonly ControlBlock control

cdef class LongCall:
    cdef ApplianceRoleContext _context
    cdef object _what
    cdef long long _limit_ms
