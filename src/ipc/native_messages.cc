#include "ipc/native_messages.h"

#include "ipc/message_codec.h"

namespace braid {

BRAID_MESSAGE(NativeExecuteMessage);
BRAID_MESSAGE(NativeExecutedMessage);

}  // namespace braid
