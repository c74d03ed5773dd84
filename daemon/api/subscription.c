/* Subscription: a client that gets a message a second until it cancels or goes. All get the same
 * one, which is made once. Who has not read the last ones misses some, and the next that he gets is
 * whole; client_sweep() ends those who read nothing at all. */
#include <stdlib.h>

#include "core/base/cleanup.h"
#include "daemon/api/internal.h"
#include "daemon/limits.h"

struct subscription {
	struct list link;
	struct client *client;
	uint64_t id;
	bool in_step; /* it got the last message */
};

/* A reply with those of its processes that this user answers for; what devices do in all is no
 * secret. False: no memory. */
static bool keep_own(Tracesmith__V1__LiveReply *reply, uid_t uid)
{
	Tracesmith__V1__LiveReply__Process **own =
		malloc((reply->n_process + 1) * sizeof(*reply->process));
	size_t count = 0;

	if (!own)
		return false;
	for (size_t i = 0; i < reply->n_process; i++)
		if (reply->process[i]->owner == uid)
			own[count++] = reply->process[i];
	reply->process = own;
	reply->n_process = count;
	return true;
}

static void subscription_send(struct subscription *subscription, const struct api_live *live)
{
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	struct client *client = subscription->client;
	Tracesmith__V1__LiveReply body;
	bool own = client_sees_own(client);
	bool whole = !subscription->in_step || live->changed->left_out;

	if (client->queued_bytes > LIMIT_LIVE_QUEUE) {
		subscription->in_step = false;
		return;
	}
	subscription->in_step = true;
	reply.id = subscription->id;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_LIVE;
	body = whole ? *live->whole : *live->changed;
	if (own && !keep_own(&body, client->uid)) {
		subscription->in_step = false;
		return;
	}
	reply.live = &body;
	client_reply(client, &reply); /* which may close the client */
	if (own)
		free(body.process);
}

static void beat(struct api *api)
{
	struct subscription *subscription;
	struct api_live live;

	if (!api->callbacks.live(api->data, &live))
		return;
	list_for_each(subscription, &api->subscriptions, link)
		subscription_send(subscription, &live);
}

static void on_beat(uv_timer_t *timer)
{
	beat(timer->data);
}

struct subscription *subscription_find(struct client *client, uint64_t id)
{
	struct subscription *subscription;

	list_for_each(subscription, &client->api->subscriptions, link)
		if (subscription->client == client && subscription->id == id)
			return subscription;
	return NULL;
}

static void subscription_free(struct subscription *subscription)
{
	struct client *client = subscription->client;
	struct api *api = client->api;

	list_remove(&subscription->link);
	client->subscription_count--;
	quota_give(&api->viewers, client->uid, 1);
	free(subscription);
	if (!list_empty(&api->subscriptions))
		return;
	uv_timer_stop(&api->beat);
	api->callbacks.live_end(api->data);
}

void subscription_cancel(struct subscription *subscription)
{
	struct client *client = subscription->client;
	uint64_t id = subscription->id;

	subscription_free(subscription);
	client_error(client, id, TRACESMITH__V1__ERROR__CODE__CANCELLED,
		     "The request was cancelled");
}

void subscriptions_end(struct client *client)
{
	struct subscription *subscription;

	if (!client->subscription_count)
		return;
	list_for_each(subscription, &client->api->subscriptions, link)
		if (subscription->client == client)
			subscription_free(subscription);
}

void subscription_add(struct client *client, uint64_t id)
{
	struct subscription *subscription;
	struct api *api = client->api;

	if (!api->callbacks.live) {
		client_fail(client, id, REASON(UNKNOWN_REQUEST), TS_VERSION, NULL);
		return;
	}
	if (client->subscription_count) { /* two would get the same */
		client_error(client, id, TRACESMITH__V1__ERROR__CODE__LIMIT,
			     "A connection can have one subscription");
		return;
	}
	if (!quota_take(&api->viewers, client->uid, 1)) {
		client_fail(client, id, REASON(TOO_MANY_VIEWERS), NULL);
		return;
	}
	subscription = calloc(1, sizeof(*subscription));
	if (!subscription) {
		quota_give(&api->viewers, client->uid, 1);
		client_fail(client, id, REASON(NO_MEMORY), NULL);
		return;
	}
	subscription->client = client;
	subscription->id = id;
	client->subscription_count++;
	list_append(&api->subscriptions, &subscription->link);
	/* Who comes first sees at once what there is; others wait for the next beat. */
	if (!uv_is_active((uv_handle_t *)&api->beat)) {
		uv_timer_start(&api->beat, on_beat, api->beat_ms, api->beat_ms);
		beat(api);
	}
}
