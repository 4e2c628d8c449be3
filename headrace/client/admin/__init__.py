"""Admin: administration of a cluster, for operators, the console and the command line. One file for each group of calls."""

from headrace.client.admin.acl import AclAdmin
from headrace.client.admin.cluster import ClusterAdmin
from headrace.client.admin.groups import GroupAdmin
from headrace.client.admin.messages import MessageAdmin
from headrace.client.admin.offsets import OffsetAdmin
from headrace.client.admin.topics import TopicAdmin

__all__ = ["Admin"]


class Admin(TopicAdmin, MessageAdmin, GroupAdmin, OffsetAdmin, ClusterAdmin, AclAdmin):
    """Administers a cluster.

        async with Admin("127.0.0.1:9876") as admin:
            await admin.create_topic("Orders", queues=8)
            progress = await admin.consumer_progress("billing")
            print(progress.lag)

    `config` is a ClientConfig, the name servers' addresses, or None, which reads the environment. Brokers are identified by their addresses
    (`host:port`, see `masters` and `cluster_info`), topics and groups by their names, without the namespace of the configuration. Every call raises
    RemotingError if a server cannot be reached, BrokerError if it rejects the request, StateError if the Admin is not running.
    """
