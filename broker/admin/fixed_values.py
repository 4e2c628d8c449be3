"""The values that GET_BROKER_CONFIG returns for RocketMQ's options without effect here (`ACCEPTED_UNUSED`).

Tools read these keys: `exportConfigs` fails without some of them, `exportMetrics` takes the number of CPUs from one. Features that do not
exist here are off; limits and pauses that are never reached have RocketMQ's default.
"""

import os
from collections.abc import Mapping
from typing import Final

_ONE_LOOP: Final = "1"
_NEVER_REACHED: Final = {
    "clientManagerThreadPoolQueueCapacity": "1000000", "consumerManagerThreadPoolQueueCapacity": "1000000",
    "endTransactionPoolQueueCapacity": "100000", "heartbeatThreadPoolQueueCapacity": "50000",
    "pullThreadPoolQueueCapacity": "100000", "putThreadPoolQueueCapacity": "10000", "queryThreadPoolQueueCapacity": "20000",
    "replyThreadPoolQueueCapacity": "10000", "sendThreadPoolQueueCapacity": "10000",
    "waitTimeMillsInHeartbeatQueue": "31000", "waitTimeMillsInPullQueue": "5000", "waitTimeMillsInSendQueue": "200",
    "waitTimeMillsInTransactionQueue": "3000",
    "channelNotActiveInterval": "60000", "clientAsyncSemaphoreValue": "65535", "clientChannelMaxIdleTimeSeconds": "120",
    "clientOnewaySemaphoreValue": "65535", "clientSocketRcvBufSize": "0", "clientSocketSndBufSize": "0",
    "connectTimeoutMillis": "3000", "serverAsyncSemaphoreValue": "64", "serverOnewaySemaphoreValue": "256",
    "serverSocketBacklog": "1024", "serverSocketRcvBufSize": "0", "serverSocketSndBufSize": "0",
    "writeBufferHighWaterMark": "0", "writeBufferLowWaterMark": "0",
    "commercialBaseCount": "1", "commercialBigCount": "1", "commercialTimerCount": "1", "commercialTransCount": "1",
    "commitCommitLogLeastPages": "4", "commitCommitLogThoroughInterval": "200", "commitIntervalCommitLog": "200",
    "transientStorePoolSize": "5",
    "consumerFallbehindThreshold": "17179869184", "deleteConsumeQueueFilesInterval": "100",
    "destroyMapedFileIntervalForcibly": "120000", "redeleteHangedFileInterval": "120000",
    "flushConsumerOffsetHistoryInterval": "60000", "flushLeastPagesWhenWarmMapedFile": "4096", "maxDelayTime": "40",
    "osPageCacheBusyTimeOutMills": "1000", "putMsgIndexHightWater": "600000",
    "scheduleAsyncDeliverMaxPendingLimit": "2000", "scheduleAsyncDeliverMaxResendNum2Blocked": "3",
}  # fmt: skip
_OFF: Final = (
    "brokerFastFailureEnable", "clientCloseSocketIfTimeout", "clientPooledByteBufAllocatorEnable", "commercialEnable",
    "debugLockEnable", "disableConsumeIfConsumerReadSlowly", "diskFallRecorded", "duplicationEnable", "enableDLegerCommitLog",
    "enableScheduleAsyncDeliver", "enableScheduleMessageStats", "fastFailIfNoBufferInStorePool",
    "fetchNamesrvAddrByAddressServer", "highSpeedMode", "isEnableBatchPush", "isolateLogEnable",
    "serverPooledByteBufAllocatorEnable", "transientStorePoolEnable", "useEpollNativeSelector",
    "useReentrantLockWhenPutMessage", "useTLS",
)  # fmt: skip
_POOLS: Final = (
    "adminBrokerThreadPoolNums", "clientManageThreadPoolNums", "clientWorkerThreads", "consumerManageThreadPoolNums",
    "endTransactionThreadPoolNums", "heartbeatThreadPoolNums", "processReplyMessageThreadPoolNums",
    "pullMessageThreadPoolNums", "putMessageFutureThreadPoolNums", "queryMessageThreadPoolNums",
    "sendMessageThreadPoolNums", "serverSelectorThreads", "serverWorkerThreads",
)  # fmt: skip


def fixed_values(queue_capacity: int) -> Mapping[str, str]:
    """The values by key. `queue_capacity`: the maximum number of queues of this broker."""
    return {
        **_NEVER_REACHED,
        **dict.fromkeys(_OFF, "false"),
        **dict.fromkeys(_POOLS, _ONE_LOOP),
        "serverCallbackExecutorThreads": "0",
        # compat: `exportMetrics` shows this as the number of CPUs, which is RocketMQ's default for it.
        "clientCallbackExecutorThreads": str(os.cpu_count() or 1),
        "filterServerNums": "0",
        "maxLmqConsumeQueueNum": str(queue_capacity),
        "messageIndexSafe": "true",
        "messageStorePlugIn": "",
        "warmMapedFileEnable": "true",
    }
