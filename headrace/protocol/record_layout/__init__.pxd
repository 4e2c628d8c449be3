# The C form of `__init__.py` beside this file, which has the drawing and the documentation. Nothing here exists at run time: numbers
# are compiled in, functions are inlined.

from headrace.protocol.big_endian cimport find_byte, load_i8, load_i16, load_i32, load_i64

cdef enum:
    MESSAGE_MAGIC = -626843481  # 0xDAA320A7
    MESSAGE_MAGIC_V2 = -626843477  # 0xDAA320AB
    BLANK_MAGIC = -875286124  # 0xCBD43194

    TOTAL_SIZE_AT = 0
    MAGIC_AT = 4
    BODY_CRC_AT = 8
    QUEUE_ID_AT = 12
    FLAG_AT = 16
    QUEUE_OFFSET_AT = 20
    PHYSICAL_OFFSET_AT = 28
    SYS_FLAG_AT = 36
    BORN_TIMESTAMP_AT = 40
    BORN_HOST_AT = 48
    STORE_TIMESTAMP_SIZE = 8
    PHYSICAL_OFFSET_END = 36

    TAIL_RECONSUME_TIMES_AT = 0
    TAIL_PREPARED_OFFSET_AT = 4
    TAIL_BODY_LENGTH_AT = 12
    TAIL_SIZE = 16

    LENGTHS_SIZE = 3
    HOSTLESS_SIZE = 75
    RECORD_OVERHEAD = 91
    END_FILE_MIN_BLANK_LENGTH = 8

    MAX_TOPIC_LENGTH = 127
    MAX_TOPIC_LENGTH_V2 = 255
    MAX_PROPERTIES_LENGTH = 32767
    BODY_CRC_MASK = 0x7FFFFFFF

    NAME_END = 1
    VALUE_END = 2

    BATCH_FLAG_AT = 12
    BATCH_BODY_LENGTH_AT = 16
    BATCH_BODY_AT = 20
    BATCH_ENTRY_OVERHEAD = 22

    WHOLE = 1
    BLANK_RECORD = 0
    NO_ROOM = -1
    NO_MAGIC = -2
    WRONG_PLACE = -3
    WRONG_LENGTHS = -4

    # Of headrace/model/host.py and sys_flag.py.
    V4_SIZE = 8
    V6_SIZE = 20
    COMPRESSED = 0x1
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_ROLLBACK = 0xC
    TRANSACTION_MASK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    INNER_BATCH = 0x80

cdef struct RecordParts:
    int outcome
    int magic
    int sys_flag
    long long size
    long long store_timestamp_at
    long long store_host_at
    long long tail_at
    long long body_at
    long long body_length
    long long topic_at
    long long topic_length
    long long properties_at
    long long properties_length

cdef struct PropertyParts:
    long long name_length
    long long value_at
    long long end

cdef inline long long host_size(int is_v6) noexcept nogil:
    return V6_SIZE if is_v6 else V4_SIZE

cdef inline RecordParts read_record(const unsigned char *data, long long at, long long end, long long physical_offset) noexcept nogil:
    cdef RecordParts parts
    cdef long long room = end - at
    parts.outcome = NO_ROOM
    parts.size = 0
    if at < 0 or room < END_FILE_MIN_BLANK_LENGTH:
        return parts
    parts.size = load_i32(data, at + TOTAL_SIZE_AT)
    parts.magic = load_i32(data, at + MAGIC_AT)
    if parts.magic != MESSAGE_MAGIC and parts.magic != MESSAGE_MAGIC_V2:
        parts.outcome = BLANK_RECORD if parts.magic == BLANK_MAGIC else NO_MAGIC
        return parts
    if room < RECORD_OVERHEAD or parts.size > room:
        return parts
    if load_i64(data, at + PHYSICAL_OFFSET_AT) != physical_offset:
        parts.outcome = WRONG_PLACE
        return parts
    return find_parts(data, at, at + parts.size)

cdef inline RecordParts find_parts(const unsigned char *data, long long at, long long end) noexcept nogil:
    cdef RecordParts parts
    parts.outcome = WRONG_LENGTHS
    parts.size = end - at
    if parts.size < RECORD_OVERHEAD:
        return parts
    parts.magic = load_i32(data, at + MAGIC_AT)
    parts.sys_flag = load_i32(data, at + SYS_FLAG_AT)
    parts.store_timestamp_at = at + BORN_HOST_AT + host_size(parts.sys_flag & BORN_HOST_V6)
    parts.store_host_at = parts.store_timestamp_at + STORE_TIMESTAMP_SIZE
    parts.tail_at = parts.store_host_at + host_size(parts.sys_flag & STORE_HOST_V6)
    parts.body_at = parts.tail_at + TAIL_SIZE
    if end - parts.body_at < LENGTHS_SIZE:
        return parts
    parts.body_length = load_i32(data, parts.tail_at + TAIL_BODY_LENGTH_AT)
    if parts.body_length < 0:
        parts.body_length = 0
    if parts.body_length > end - parts.body_at - LENGTHS_SIZE:
        return parts
    parts.topic_at = parts.body_at + parts.body_length
    if parts.magic == MESSAGE_MAGIC_V2:
        parts.topic_length = load_i16(data, parts.topic_at)
        parts.topic_at += 2
    else:
        parts.topic_length = load_i8(data, parts.topic_at)
        parts.topic_at += 1
    if parts.topic_length < 0 or parts.topic_length > end - parts.topic_at - 2:
        return parts
    parts.properties_at = parts.topic_at + parts.topic_length + 2
    parts.properties_length = load_i16(data, parts.properties_at - 2)
    if parts.properties_length < 0:
        parts.properties_length = 0
    if parts.properties_length == end - parts.properties_at:
        parts.outcome = WHOLE
    return parts

cdef inline PropertyParts read_property(const unsigned char *data, long long at, long long end) noexcept nogil:
    cdef PropertyParts found
    cdef long long separator
    found.end = find_byte(data, VALUE_END, at, end)
    if found.end < 0:
        found.end = end
    separator = find_byte(data, NAME_END, at, found.end)
    if separator <= at or separator >= found.end - 1:
        found.name_length = 0
        found.value_at = found.end
    else:
        found.name_length = separator - at
        found.value_at = separator + 1
    return found
