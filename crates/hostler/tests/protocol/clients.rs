//! Several clients: one truth for all of them, and each only its own.

use super::kit::*;

area! { Stage::fake();
    everybody_hears_the_same_in_the_same_order,
    an_echo_names_its_author_to_everybody,
    what_the_host_says_has_no_author,
    a_refusal_is_heard_by_the_channel_s_subscribers,
    one_session_is_not_heard_in_another,
    late_comers_see_what_the_others_see,
    a_client_that_leaves_disturbs_nobody,
    a_turn_goes_on_without_its_author,
    two_clients_start_a_turn_and_one_of_them_wins,
    a_hundred_titles_of_ten_clients_end_in_one,
    an_active_client_is_set_updated_and_removed,
    nobody_speaks_for_another,
    removing_an_inactive_client_is_refused,
    unsubscribing_a_session_ends_the_activity_in_it,
    an_active_client_that_comes_back_elsewhere_is_gone,
    tools_of_a_client_are_kept_and_not_run,
    a_malformed_active_client_is_refused,
    a_wish_without_a_subscription_is_carried_out,
    wishes_of_one_client_are_answered_in_their_order,
    a_wish_for_an_unknown_session_is_ignored,
}

fn title(title: &str) -> Value {
    json!({"type": "session/titleChanged", "title": title})
}

async fn everybody_hears_the_same_in_the_same_order(case: Case) {
    let (mut one, uris) = case.session().await;
    let (mut two, mut three) = (case.beside(&uris).await, case.beside(&uris).await);
    let turn = one.say(&uris.chat, "deltas 100").await;
    two.accepted(&uris.session, title("Two")).await;
    three.accepted(&uris.session, title("Three")).await;
    for client in [&mut one, &mut two, &mut three] {
        client.end(&uris.chat, &turn).await;
        client.agrees(&uris.chat).await;
        client.agrees(&uris.session).await;
    }
    assert_eq!(one.envelopes(&uris.chat), two.envelopes(&uris.chat));
    assert_eq!(one.envelopes(&uris.chat), three.envelopes(&uris.chat));
}

async fn an_echo_names_its_author_to_everybody(case: Case) {
    let (mut one, uris) = case.session().await;
    let mut two = case.beside(&uris).await;
    one.accepted(&uris.session, title("x")).await;
    let heard = two.envelope(&uris.session, "session/titleChanged").await;
    assert_eq!(heard["origin"], json!({"clientId": one.id, "clientSeq": one.seq}));
}

async fn what_the_host_says_has_no_author(case: Case) {
    let (mut client, uris) = case.session().await;
    client.ask(&uris.chat, "deltas 3").await;
    for envelope in client.envelopes(&uris.chat) {
        let mine = envelope["action"]["type"] == "chat/turnStarted";
        assert_eq!(envelope.get("origin").is_some(), mine, "{envelope:#}");
    }
}

async fn a_refusal_is_heard_by_the_channel_s_subscribers(case: Case) {
    let (mut one, uris) = case.session().await;
    let mut two = case.beside(&uris).await;
    let reason = one.refused(&uris.session, title("")).await;
    let refused = |message: &Value| message["params"].get("rejectionReason").is_some();
    let envelope = two.until(refused).await["params"].take();
    assert_eq!((&envelope["rejectionReason"], &envelope["origin"]["clientId"]), (&json!(reason), &json!(one.id)));
    two.agrees(&uris.session).await;
}

async fn one_session_is_not_heard_in_another(case: Case) {
    let (mut one, mine) = case.session().await;
    let (mut two, theirs) = case.session().await;
    let (a, b) = (one.say(&mine.chat, "deltas 20").await, two.say(&theirs.chat, "deltas 20").await);
    one.end(&mine.chat, &a).await;
    two.end(&theirs.chat, &b).await;
    assert_eq!(one.envelopes(&theirs.chat).len() + one.envelopes(&theirs.session).len(), 0);
    assert_eq!(two.envelopes(&mine.chat).len() + two.envelopes(&mine.session).len(), 0);
}

async fn late_comers_see_what_the_others_see(case: Case) {
    let (mut one, uris) = case.session().await;
    let turn = one.say(&uris.chat, "slow").await;
    one.action(&uris.chat, "chat/delta").await;
    let mut late = case.beside(&uris).await;
    one.accepted(&uris.chat, cancel(&turn)).await;
    late.end(&uris.chat, &turn).await;
    late.agrees(&uris.chat).await;
    one.agrees(&uris.chat).await;
    assert_eq!(one.subscribe(&uris.chat).await, late.subscribe(&uris.chat).await);
}

async fn a_client_that_leaves_disturbs_nobody(case: Case) {
    let (mut one, uris) = case.session().await;
    let turn = one.say(&uris.chat, "deltas 300").await;
    for _ in 0..5 {
        drop(case.beside(&uris).await);
    }
    one.end(&uris.chat, &turn).await;
    one.agrees(&uris.chat).await;
}

async fn a_turn_goes_on_without_its_author(case: Case) {
    let (mut one, uris) = case.session().await;
    let mut two = case.beside(&uris).await;
    let turn = one.say(&uris.chat, &format!("wait {}", case.dir.join("go").display())).await;
    one.action(&uris.chat, "chat/delta").await;
    drop(one);
    case.write("go", "");
    assert_eq!(two.end(&uris.chat, &turn).await["type"], "chat/turnComplete");
}

async fn two_clients_start_a_turn_and_one_of_them_wins(case: Case) {
    let (mut one, uris) = case.begun().await;
    let mut two = case.beside(&uris).await;
    let (mine, theirs) = (turn("hang"), turn("hang"));
    let (a, b) = (one.dispatch(&uris.chat, mine.clone()).await, two.dispatch(&uris.chat, theirs.clone()).await);
    let (a, b) = (one.echo(a).await, two.echo(b).await);
    let refused = [&a, &b].iter().filter(|envelope| envelope.get("rejectionReason").is_some()).count();
    assert_eq!(refused, 1, "{a:#} {b:#}");
    let winner = if a.get("rejectionReason").is_none() { mine } else { theirs };
    assert_eq!(two.subscribe(&uris.chat).await["activeTurn"]["id"], winner["turnId"]);
    one.accepted(&uris.chat, cancel(winner["turnId"].as_str().unwrap())).await;
}

async fn a_hundred_titles_of_ten_clients_end_in_one(case: Case) {
    let (mut watcher, uris) = case.begun().await;
    let mut writers = Vec::new();
    for number in 0..10 {
        let (case, uris) = (case.clone(), uris.clone());
        writers.push(tokio::spawn(async move {
            let mut client = case.beside(&uris).await;
            for round in 0..10 {
                client.accepted(&uris.session, title(&format!("{number}-{round}"))).await;
            }
            client.agrees(&uris.session).await;
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    watcher.agrees(&uris.session).await;
    let titles = watcher.envelopes(&uris.session).into_iter().filter(|e| e["action"]["type"] == "session/titleChanged");
    assert!(titles.filter(|envelope| envelope.get("origin").is_some()).count() == 100, "each of them is heard once");
}

fn active(id: &str, name: &str) -> Value {
    json!({"type": "session/activeClientSet", "activeClient": {"clientId": id, "displayName": name, "tools": []}})
}

fn inactive(id: &str) -> Value {
    json!({"type": "session/activeClientRemoved", "clientId": id})
}

async fn actives(client: &mut Client, session: &str) -> Vec<Value> {
    client.subscribe(session).await["activeClients"].as_array().unwrap().clone()
}

async fn an_active_client_is_set_updated_and_removed(case: Case) {
    let (mut client, uris) = case.session().await;
    let id = client.id.clone();
    client.accepted(&uris.session, active(&id, "One")).await;
    client.accepted(&uris.session, active(&id, "Two")).await;
    let now = actives(&mut client, &uris.session).await;
    assert_eq!((now.len(), &now[0]["displayName"]), (1, &json!("Two")));
    client.accepted(&uris.session, inactive(&id)).await;
    assert_eq!(actives(&mut client, &uris.session).await, [] as [Value; 0]);
    client.agrees(&uris.session).await;
}

async fn nobody_speaks_for_another(case: Case) {
    let (mut one, uris) = case.session().await;
    let mut two = case.beside(&uris).await;
    let id = one.id.clone();
    one.accepted(&uris.session, active(&id, "One")).await;
    two.refused(&uris.session, active(&id, "Forged")).await;
    two.refused(&uris.session, inactive(&id)).await;
    assert_eq!(actives(&mut one, &uris.session).await[0]["displayName"], "One");
}

async fn removing_an_inactive_client_is_refused(case: Case) {
    let (mut client, uris) = case.session().await;
    let id = client.id.clone();
    client.refused(&uris.session, inactive(&id)).await;
}

async fn unsubscribing_a_session_ends_the_activity_in_it(case: Case) {
    let (mut one, uris) = case.session().await;
    let mut two = case.beside(&uris).await;
    let id = one.id.clone();
    one.accepted(&uris.session, active(&id, "One")).await;
    one.unsubscribe(&uris.session).await;
    assert_eq!(two.action(&uris.session, "session/activeClientRemoved").await["clientId"], one.id);
    two.agrees(&uris.session).await;
}

async fn an_active_client_that_comes_back_elsewhere_is_gone(case: Case) {
    let (mut one, uris) = case.session().await;
    let mut two = case.beside(&uris).await;
    let id = one.id.clone();
    one.accepted(&uris.session, active(&id, "One")).await;
    drop(one);
    // A connection that is still there may be the one that hears the session, so its end has to be noticed first.
    loop {
        let mut back = case.stranger().await;
        back.id = id.clone();
        let params = json!({"clientId": id, "lastSeenServerSeq": 0, "subscriptions": [ROOT]});
        back.ok("reconnect", params).await;
        if actives(&mut two, &uris.session).await.is_empty() {
            break;
        }
    }
    assert_eq!(two.action(&uris.session, "session/activeClientRemoved").await["clientId"], id);
}

async fn tools_of_a_client_are_kept_and_not_run(case: Case) {
    let (mut client, uris) = case.session().await;
    let mut wish = active(&client.id, "One");
    wish["activeClient"]["tools"] =
        json!([{"name": "editor_open", "description": "opens", "inputSchema": {"type": "object"}}]);
    client.accepted(&uris.session, wish.clone()).await;
    assert_eq!(actives(&mut client, &uris.session).await[0]["tools"], wish["activeClient"]["tools"]);
    let turn = client.ask(&uris.chat, "hello").await;
    assert_eq!(turn["state"], "complete");
}

async fn a_malformed_active_client_is_refused(case: Case) {
    let (mut client, uris) = case.session().await;
    for active in [json!({}), json!({"clientId": client.id}), json!(7), json!({"clientId": client.id, "tools": 7})] {
        client.refused(&uris.session, json!({"type": "session/activeClientSet", "activeClient": active})).await;
    }
    assert_eq!(actives(&mut client, &uris.session).await, [] as [Value; 0]);
}

async fn a_wish_without_a_subscription_is_carried_out(case: Case) {
    let (mut one, uris) = case.session().await;
    let mut two = case.client().await;
    two.dispatch(&uris.session, title("From afar")).await;
    assert_eq!(one.action(&uris.session, "session/titleChanged").await["title"], "From afar");
}

async fn wishes_of_one_client_are_answered_in_their_order(case: Case) {
    let (mut client, uris) = case.begun().await;
    let mut last = 0;
    for number in 0..200 {
        let wish = if number % 3 == 2 { title("") } else { title(&number.to_string()) };
        last = client.dispatch(&uris.session, wish).await;
    }
    client.echo(last).await;
    let origins: Vec<_> = client
        .envelopes(&uris.session)
        .iter()
        .filter_map(|envelope| envelope["origin"]["clientSeq"].as_i64())
        .collect();
    assert_eq!(origins.len(), 200);
    assert!(origins.windows(2).all(|pair| pair[0] < pair[1]), "{origins:?}");
}

async fn a_wish_for_an_unknown_session_is_ignored(case: Case) {
    let (mut client, uris) = case.session().await;
    let nobody = Uris::fresh();
    client.dispatch(&nobody.session, title("x")).await;
    client.dispatch(&nobody.chat, turn("hello")).await;
    client.dispatch("nonsense", title("x")).await;
    client.accepted(&uris.session, title("still here")).await;
    let envelopes = client.heard.iter().filter(|message| message["method"] == "action");
    let strange = envelopes.filter(|message| message["params"]["channel"] == nobody.session);
    assert_eq!(strange.count(), 0);
}
